"""A hub of our own answers as huggingface.co does, so that each refusal is the client's real one."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from backend.models.access import check_access

ANSWERS = {
    "/api/models/owner/open/auth-check": (200, {}),
    "/api/models/owner/gated/auth-check": (
        403,
        {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted"},
    ),
    "/api/models/owner/absent/auth-check": (404, {"X-Error-Code": "RepoNotFound"}),
}


@pytest.fixture
def hub(monkeypatch, tmp_path):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, headers = ANSWERS[self.path]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_an_open_base_passes(hub):
    check_access("owner/open", ["FluxPipeline"], hub)


def test_a_gated_base_names_the_licence_and_the_token(hub):
    with pytest.raises(ValueError, match=r"gated.*accept its licence at https://huggingface\.co/owner/gated.*HF_TOKEN"):
        check_access("owner/gated", ["FluxPipeline"], hub)


def test_a_base_that_is_not_there_is_named(hub):
    with pytest.raises(ValueError, match=r"'owner/absent' is not on the hub, or is private; check the id"):
        check_access("owner/absent", ["FluxPipeline"], hub)


def test_no_network_is_told_with_what_to_do(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with pytest.raises(ValueError, match=r"the hub cannot be reached .* copy the pipeline's folder"):
        check_access("owner/open", ["FluxPipeline"], "http://127.0.0.1:9")


def test_a_folder_must_hold_the_familys_pipeline(folders, tmp_path, settings_of):
    check_access(folders.flux, ["FluxPipeline"])
    settings_of("wan_image").check_access()
    settings_of("sd3").check_access()
    with pytest.raises(ValueError, match=r"is a WanPipeline, and this family loads FluxPipeline; set model\.family"):
        check_access(folders.wan, ["FluxPipeline"])
    with pytest.raises(ValueError, match="holds no model_index"):
        check_access(str(tmp_path), ["FluxPipeline"])
    with pytest.raises(ValueError, match="neither a folder on this machine nor a hub id"):
        check_access("/models/absent", ["FluxPipeline"])
