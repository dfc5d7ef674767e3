#!/bin/sh
# beside.sh CHECKS TESTS...: runs both commands at the same time, prints the output of the tests as it comes and that of
# the checks in one piece after it, and fails if either fails. Without CHECKS only the tests run.
set -u

checks=$1
shift
if [ -z "$checks" ]; then
  echo 'Some tests were chosen, so the checks are left out: make check runs them.'
  exec "$@"
fi

printed=$(mktemp) || exit 1
trap 'rm -f "$printed"' EXIT
sh -c "exec $checks" >"$printed" 2>&1 &
beside=$!
# The shell lets what runs in the background ignore Ctrl-C, so it is ended here.
trap 'kill "$beside" 2>/dev/null; exit 130' INT TERM

"$@"
tests=$?
wait "$beside"
checked=$?

echo
echo "---- $checks"
cat "$printed"
echo
outcome() { if [ "$1" -eq 0 ]; then echo passed; else echo "failed with exit code $1"; fi; }
echo "Tests: $(outcome "$tests"). Checks: $(outcome "$checked")."
[ "$tests" -eq 0 ] && [ "$checked" -eq 0 ]
