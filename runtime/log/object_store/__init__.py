"""The log in an object store: Amazon S3, a server that speaks its protocol, or a local folder to try it."""
