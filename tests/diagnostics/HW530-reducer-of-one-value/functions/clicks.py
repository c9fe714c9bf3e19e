def latest(new):
    return new
