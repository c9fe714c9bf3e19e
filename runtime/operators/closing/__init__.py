"""What comes of windows once they are closed."""
