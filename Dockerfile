# The image holds Python, the hashed run-time requirements (those for serving cluster-autoscaler among them) and
# this program, and runs without root, a shell or a writable disk. Beside its own command it has those of its
# predecessors, so that their manifests work with nothing but the image replaced: `verda-cloud-provider`, and
# `./cluster-autoscaler` in the root folder.
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY requirements-grpc.txt requirements-dev.txt ./
RUN python -m venv /opt/app \
    && /opt/app/bin/python -m pip install --require-hashes --only-binary=:all: -r requirements-grpc.txt
# The build backend comes pinned and hashed too, and stays out of the final image.
RUN awk '/^setuptools==/ { on = 1 } on { print } on && !/\\$/ { exit }' requirements-dev.txt > build.txt \
    && python -m pip install --require-hashes --no-deps -r build.txt
COPY pyproject.toml README.md LICENSE ./
COPY controller controller
COPY compat_grpc compat_grpc
RUN python -m pip wheel --no-deps --no-build-isolation --no-index --wheel-dir /dist . \
    && /opt/app/bin/python -m pip install --no-deps --no-index /dist/*.whl \
    && /opt/app/bin/python -m pip uninstall --yes pip

FROM python:${PYTHON}-slim
ENV PATH=/opt/app/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
COPY --from=build /opt/app /opt/app
# cluster-autoscaler's manifests start it by a relative path from the root folder.
RUN ln -s /opt/app/bin/cluster-autoscaler /cluster-autoscaler \
    && ln -s /opt/app/bin/verda-cloud-provider /verda-cloud-provider
USER 65532:65532
WORKDIR /
EXPOSE 8080 8085 8086
ENTRYPOINT ["verda-gpu-autoscaler"]
CMD ["run"]
