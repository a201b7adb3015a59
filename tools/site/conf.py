# The Sphinx configuration of the site. tools/site lays out the pages and runs Sphinx.

project = "replay"
author = "the authors of replay"
html_title = "replay"
root_doc = "index"
exclude_patterns = ["_extra"]

# Pages are GitHub Markdown, with GitHub's anchors.
extensions = ["myst_parser"]
myst_enable_extensions = ["deflist"]  # for the pages of commands
myst_heading_anchors = 6
smartquotes = False  # no dashes instead of the -- in --flag
highlight_language = "none"

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_extra_path = ["_extra"]  # complete HTML pages, which Sphinx copies unchanged
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_use_index = False
html_domain_indices = False
templates_path = []
pygments_style = "default"
pygments_dark_style = "github-dark"
html_theme_options = {"navigation_with_keys": True}
