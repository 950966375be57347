"""One kind of criterion a file: records or statements -> its outcome."""
