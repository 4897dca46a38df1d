"""The web application: API, event stream, media, own scripts, and the pages, all under one guard."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import gradio as gr
from fastapi import FastAPI
from fastapi.responses import FileResponse, Response
from fastapi.staticfiles import StaticFiles

from frontend_components import api, compare, desk, drafts, launch, leaderboard, live, media, reviews, run, runs, tree
from frontend_components.body_limit import BodyLimit
from frontend_components.guard import Guard
from frontend_components.judging import desk_api, review_api, vote_api
from frontend_components.lock import Lock
from frontend_components.page import HEAD, STATIC
from frontend_components.theme import theme

PAGES: dict[str, Callable[[], None]] = {
    "Runs": runs.render,
    "Run": run.render,
    "Tree": tree.render,
    "Compare": compare.render,
    "Reviews": reviews.render,
    "Review": desk.render,
    "Leaderboard": leaderboard.render,
}


class Fresh(StaticFiles):
    """Files that a browser asks for again each time, and gets again only when they changed."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


def pages() -> gr.Blocks:
    """Launch stands at /, every other page at its own name."""
    warnings.filterwarnings("ignore", message="SSR mode is not supported")
    with gr.Blocks(title="Espalier", analytics_enabled=False, fill_width=True) as blocks:
        launch.render()
    for name, render in PAGES.items():
        with blocks.route(name, f"/{name.lower()}", show_in_navbar=False):
            render()
    return blocks


def site(host: str, port: int, public_url: str | None, password: str | None) -> FastAPI:
    """host, port: the address it listens on; public_url: where people reach it; password: None where all may enter."""
    app = FastAPI(title="Espalier", docs_url="/api/docs", openapi_url="/api/v1/openapi.json", redoc_url=None)
    app.state.hub = live.Hub()
    app.add_middleware(BodyLimit)
    if password is not None:
        app.add_middleware(Lock, password=password, secure=(public_url or "").startswith("https:"))
    app.add_middleware(Guard, host=host, public_url=public_url)
    for part in (api, drafts, live, media, review_api, desk_api, vote_api):
        app.include_router(part.router)

    @app.get("/ui/plotly.min.js", include_in_schema=False)
    def plotly() -> FileResponse:
        script = files("plotly") / "package_data" / "plotly.min.js"
        return FileResponse(str(script), media_type="text/javascript", headers={"Cache-Control": "max-age=86400"})

    app.mount("/ui", Fresh(directory=STATIC))
    gr.mount_gradio_app(
        app,
        pages(),
        path="/",
        server_name=host,
        server_port=port,
        footer_links=[],
        run_history=False,
        enable_monitoring=False,
        ssr_mode=False,
        pwa=False,
        mcp_server=False,
        root_path=public_url,
        theme=theme(),
        head=HEAD,
    )
    return app
