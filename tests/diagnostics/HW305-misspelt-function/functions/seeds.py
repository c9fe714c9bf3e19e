def clicks():
    yield {"key": {"user": "ada"}, "value": {"url": "/", "seconds": 3}}
