def most(old, new):
    return new if new.visits > old.visits else old
