"""What docs/ needs beside mkdocs: links to files of the repository, and the anchors that GitHub gives to headings."""
import posixpath
import re

REPOSITORY = "https://github.com/inference-exporter/inference_exporter/blob/main/"
LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def slug(text, separator):
    """Returns the anchor of a heading as GitHub does."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def on_page_markdown(markdown, page, **_):
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def link(match):
        target = match.group(2)
        if "://" in target or target.startswith(("#", "mailto:")):
            return match.group(0)
        path = posixpath.normpath(posixpath.join(folder, target.split("#")[0]))
        if path.startswith("docs/") and not path.endswith((".go", ".1")):
            return match.group(0)
        return match.group(1) + REPOSITORY + path + match.group(3)

    return LINK.sub(link, markdown)
