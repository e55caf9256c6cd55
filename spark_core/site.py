"""Where the documentation is read: messages name its pages, since an installation has none."""

SITE = "https://lakegc.github.io/lakegc"
