FROM python:3.11-slim

RUN useradd --create-home espalier && install --directory --owner=espalier /data
WORKDIR /espalier
COPY pyproject.toml app.py ./
COPY backend backend
COPY db db
COPY workers workers
COPY frontend_components frontend_components
COPY configs configs
RUN pip install --no-cache-dir --editable ".[postgres]"

USER espalier
ENV ESPALIER_DATA=/data HF_HOME=/data/huggingface OMP_WAIT_POLICY=PASSIVE
VOLUME /data
EXPOSE 7860
ENTRYPOINT ["python", "app.py"]
CMD ["serve"]
