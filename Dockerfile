# One image for every role: `docker run IMAGE namesrv ...`, `broker ...`, `swarm ...`; see docker-compose.yml.
# Python is never started with -O here: the assertions that guard our own bugs stay on.

FROM python:3.11-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY . .
RUN python -m venv /opt/rlab && /opt/rlab/bin/python -m pip install -c constraints.txt .

FROM python:3.11-slim
# A fixed number, so that a data volume keeps its owner when the image is built anew.
RUN groupadd --gid 10001 rlab \
 && useradd --uid 10001 --gid rlab --no-create-home --shell /usr/sbin/nologin rlab \
 && install --directory --owner=rlab --group=rlab --mode=0750 /data
COPY --from=build /opt/rlab /opt/rlab
ENV PATH=/opt/rlab/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER rlab
WORKDIR /data
# Healthy means: the role's port accepts a connection. Brokers set HEALTH_PORT to theirs; a role that listens on nothing
# turns the check off.
ENV HEALTH_PORT=9876
HEALTHCHECK --interval=5s --timeout=3s --start-period=10s --retries=3 \
  CMD python -c "import socket; socket.create_connection(('127.0.0.1', $HEALTH_PORT), 2).close()"
ENTRYPOINT ["rlab"]
CMD ["--help"]
