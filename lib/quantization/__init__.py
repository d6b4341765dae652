"""Weight quantization: code books, schemes, really packed bytes, and the error they leave behind."""
