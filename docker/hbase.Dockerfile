# A standalone HBase with a Thrift server, from the same lock as `make hbase`. For testing on one's own machine.
FROM python:3.12-slim-bookworm AS parts

# Java's package links manuals into a folder that slim images have not
RUN mkdir -p /usr/share/man/man1 \
 && apt-get update \
 && apt-get install --yes --no-install-recommends maven \
 && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/hbase
COPY scripts/interop_env.py scripts/maven_jars.py scripts/hbase_parts.py scripts/
COPY scripts/hbase scripts/hbase
RUN python scripts/hbase_parts.py

FROM python:3.12-slim-bookworm

# procps: ps tells whether a process still is ours
RUN mkdir -p /usr/share/man/man1 \
 && apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
 && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/hbase
COPY --from=parts /opt/hbase /opt/hbase
COPY scripts/hbase_server.py scripts/ports.py scripts/

RUN useradd --create-home hbase && mkdir /data && chown hbase /data
USER hbase
VOLUME /data
EXPOSE 9090
CMD ["python", "scripts/hbase_server.py", "serve", "--folder", "/data", "--bind", "0.0.0.0", "--port", "9090"]
