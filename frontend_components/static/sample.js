// A sample as an element: a picture, or a video with its first frame as a still.
import { media } from "./api.js";
import { el } from "./dom.js";

export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
const SMALL = 160; // pixels: pictures up to this size are shown with their pixels, not blurred up

/** byItself: a video starts without being asked, unless its viewer wants no motion; then it has a button to start. */
export function sampleElement(row, props = {}, byItself = false) {
  if (!row.mime?.startsWith("video/"))
    return el("img", { src: media(row.sha256), loading: "lazy", decoding: "async", draggable: "false", ...props });
  const { alt, ...others } = props;
  const video = el("video", {
    src: media(row.sha256),
    poster: row.poster ? media(row.poster) : null,
    "aria-label": alt ?? "",
    autoplay: byItself && !still(),
    controls: byItself && still(),
    loop: true,
    playsinline: true,
    preload: byItself ? "metadata" : "none",
    ...others,
  });
  video.muted = true; // the attribute alone does not mute an element that a script makes, and only muted ones may start
  return video;
}

/** A cell of the size of its sample, in which a Zoom enlarges it. */
export function frame(shown, row) {
  const ratio = row.width && row.height ? `${row.width} / ${row.height}` : "1";
  return el(row.width <= SMALL ? "span.frame.pixels" : "span.frame", { style: { aspectRatio: ratio } }, shown);
}
