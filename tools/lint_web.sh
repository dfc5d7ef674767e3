#!/bin/sh
# Lints JavaScript and CSS with biome, which npx downloads once. Without Node.js or a network it prints why it cannot,
# and succeeds: all other checks can be run there, and no machine has to have Node.js to change Python.
set -u

BIOME=@biomejs/biome@2.6.8
skip() { echo "JavaScript and CSS were not linted: $1"; exit 0; }

command -v npx >/dev/null || skip 'there is no npx, which comes with Node.js.'
# One attempt of at most 20 s, and none if it was downloaded before.
export npm_config_fetch_retries=0 npm_config_fetch_timeout=20000 npm_config_prefer_offline=true
found=$(npx --yes "$BIOME" --version 2>&1) || skip "npx could not get $BIOME: $(echo "$found" | grep -v '^ *$' | head -n 2 | tr '\n' ' ')"
echo "biome $found" | tail -n 1
exec npx --yes "$BIOME" lint --error-on-warnings --diagnostic-level=warn \
  console/static/*.js console/static/*.css pictures/static/*.js pictures/static/*.css tests/interop/node/*.js
