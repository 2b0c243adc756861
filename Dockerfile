# syntax=docker/dockerfile:1
# Two images from one file; `--target operator` or `--target train`. Both bases are arguments:
#   OPERATOR_BASE  any image with Python 3.11 to 3.13 and pip
#   TRAIN_BASE     a Ray image, in which the training runs
# Where packages come from an index or through a certificate authority of your own, give a pip.conf as the build secret
# `pip` (--secret id=pip,src=pip.conf). The operator's packages also take the arguments PIP_INDEX_URL and PIP_CERT: they are
# installed in a stage that is thrown away. An argument of the train stage would stay in that image's history.
ARG OPERATOR_BASE=docker.io/library/python:3.12-slim-bookworm
ARG TRAIN_BASE=docker.io/rayproject/ray:2.58.0-py312

# --- the operator's code and packages, in a virtual environment that holds no pip; one tree, so one layer later ---
FROM ${OPERATOR_BASE} AS operator-files
ARG PIP_INDEX_URL
ARG PIP_CERT
COPY requirements/operator.txt /tmp/operator.txt
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    python3 -m venv --without-pip /opt/trainsweep/venv \
    && python3 -m pip --python /opt/trainsweep/venv/bin/python install --no-cache-dir --no-deps \
       --only-binary :all: --require-hashes --requirement /tmp/operator.txt \
    # Bytecode is written here, once: the running container has a read-only root. Hash-based: no time stamp matters.
    && python3 -m compileall -q -f --invalidation-mode unchecked-hash /opt/trainsweep/venv
COPY LICENSE /opt/trainsweep/LICENSE
COPY operator/trainsweep /opt/trainsweep/app/trainsweep
RUN python3 -m compileall -q -f --invalidation-mode unchecked-hash /opt/trainsweep/app

# --- the operator ---
FROM ${OPERATOR_BASE} AS operator
LABEL org.opencontainers.image.title="trainsweep-operator" \
      org.opencontainers.image.description="Runs TrainSweeps: one RayJob at a time, checkpoints proven before teardown" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=operator-files /opt/trainsweep /opt/trainsweep
ENV PATH=/opt/trainsweep/venv/bin:$PATH \
    PYTHONPATH=/opt/trainsweep/app \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
# A number, so that the kubelet can prove runAsNonRoot.
USER 65532:65532
EXPOSE 9090
ENTRYPOINT ["python", "-m", "trainsweep.runtime"]

# --- the driver's code ---
FROM scratch AS driver-files
COPY LICENSE /
COPY operator/trainsweep /trainsweep
COPY trainjobs /trainjobs

# --- the image of the Ray pods: the driver, and what it imports ---
FROM ${TRAIN_BASE} AS train
LABEL org.opencontainers.image.title="trainsweep-train" \
      org.opencontainers.image.description="Ray with the TrainSweep driver: python -m trainjobs" \
      org.opencontainers.image.licenses="Apache-2.0"
# lock   everything at the versions of requirements/train.txt, hashes checked; what the base has in that version stays
# ranges only what the base lacks or has outside the ranges of pyproject.toml: for a base with a torch of its own
# none   nothing: the base has it all, or a mounted environment brings it
ARG TRAIN_INSTALL=lock
ARG TRAIN_USER=1000:100
USER 0:0
COPY pyproject.toml requirements/train.txt requirements/install-train /opt/trainsweep/requirements/
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONPATH=/opt/trainsweep \
    PYTHONUNBUFFERED=1
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    /opt/trainsweep/requirements/install-train "${TRAIN_INSTALL}" "${TRAIN_USER}"
COPY --from=driver-files / /opt/trainsweep/
WORKDIR /home/ray
USER ${TRAIN_USER}
