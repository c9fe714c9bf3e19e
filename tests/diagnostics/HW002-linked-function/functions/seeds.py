from functions import shared


def clicks():
    return shared.ROWS
