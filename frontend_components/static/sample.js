// A sample as an element: a picture, or a video that runs by itself without sound.
import { media } from "./api.js";
import { el } from "./dom.js";

export function sampleElement(row, props = {}) {
  if (!row.mime?.startsWith("video/"))
    return el("img", { src: media(row.sha256), loading: "lazy", decoding: "async", ...props });
  const { alt, ...others } = props;
  const video = el("video", {
    src: media(row.sha256),
    "aria-label": alt ?? "",
    autoplay: true,
    loop: true,
    playsinline: true,
    preload: "metadata",
    ...others,
  });
  video.muted = true; // the attribute alone does not mute an element that a script makes, and only muted ones may start
  return video;
}

/** Two videos run on the clock of the first; pictures need none. */
export function together(first, second) {
  if (!(first instanceof HTMLVideoElement) || !(second instanceof HTMLVideoElement)) return;
  first.addEventListener("timeupdate", () => {
    if (Math.abs(first.currentTime - second.currentTime) > 0.04) second.currentTime = first.currentTime;
  });
}
