"""Takes the picture of the top README: the page of the decoder blocks' plan.

    take_picture.py MESHC ROOT [--update]

Without --update the picture goes to a folder that is removed; either way it has to be there,
of the size of a screen and small.
"""

import pathlib
import struct
import sys

import browser
import cases

PICTURE = "samples/plan.png"
WIDTH, HEIGHT, MOST_BYTES = 1280, 800, 300_000


def get_size(png):
    assert png[:8] == b"\x89PNG\r\n\x1a\n", "it is no PNG"
    return struct.unpack(">II", png[16:24])


def main():
    compiler, page = browser.start()
    with page:
        page.resize(WIDTH, HEIGHT)
        page.open_plan(compiler, cases.BLOCKS, "--machine", "h100", link="theme=light")
        page.run("scrollTo(0, 0)")
        page.driver.execute_async_script("setTimeout(arguments[0], 300)")
        png = page.driver.get_screenshot_as_png()
        page.finish()
    kept = pathlib.Path(sys.argv[2]) / PICTURE
    if "--update" in sys.argv[3:]:
        kept.write_bytes(png)
    for name, picture in (("the picture taken now", png), (PICTURE, kept.read_bytes())):
        assert get_size(picture) == (WIDTH, HEIGHT), f"{name}: {get_size(picture)}"
        assert 20_000 < len(picture) < MOST_BYTES, f"{name}: {len(picture)} bytes"


main()
