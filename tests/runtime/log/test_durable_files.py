import pytest

from headwater.runtime.log.durable_files import make_directory, write_durably


def test_file_written_whole_is_read_back(tmp_path):
    write_durably(tmp_path / "a", memoryview(b"x" * 100_000))
    assert (tmp_path / "a").read_bytes() == b"x" * 100_000


def test_path_that_is_taken_keeps_its_file(tmp_path):
    write_durably(tmp_path / "a", b"one")
    with pytest.raises(FileExistsError):
        write_durably(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"one"


def test_directory_is_made_with_those_above_it_and_again(tmp_path):
    make_directory(tmp_path / "a" / "b" / "c")
    make_directory(tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()
