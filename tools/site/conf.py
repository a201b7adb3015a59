# What Sphinx makes the site by. tools/site lays out the pages and calls it.

project = "replay"
author = "the authors of replay"
html_title = "replay"
root_doc = "index"
exclude_patterns = ["_extra"]

# Pages are Markdown as GitHub shows it, with anchors as GitHub makes them.
extensions = ["myst_parser"]
myst_enable_extensions = ["deflist"]  # of the pages of commands
myst_heading_anchors = 6
smartquotes = False  # --flag stays --flag
highlight_language = "none"

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_extra_path = ["_extra"]  # pages that stand for themselves
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_use_index = False
html_domain_indices = False
templates_path = []
pygments_style = "default"
pygments_dark_style = "github-dark"
html_theme_options = {"navigation_with_keys": True}
