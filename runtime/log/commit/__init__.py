"""What one commit says of an application: plain data, and its bytes."""
