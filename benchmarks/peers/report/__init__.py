"""Records in; numbers with intervals, one page and one chart out."""
