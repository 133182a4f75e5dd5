"""What goes into requests never comes out: secrets in whatever spelling."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.access import LEAST_SECRET, MASK, Access, is_secret_name
from specbench.errors import SpecbenchError

SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=LEAST_SECRET, max_size=40)


@given(secret=SECRETS, before=st.text(max_size=20), after=st.text(max_size=20))
def test_no_text_holds_a_secret_afterwards(secret: str, before: str, after: str) -> None:
    access = Access(secrets=(secret,))
    for text in (before + secret + after, json.dumps({before: secret + after}), json.dumps(secret).replace("/", "\\/")):
        assert secret not in access.redact(text)
        assert json.dumps(secret)[1:-1] not in access.redact(text)
    masked = access.mask((before + secret + after).encode())
    assert secret.encode() not in masked
    assert len(masked) == len((before + secret + after).encode())


def test_a_json_value_is_cleaned_at_every_depth() -> None:
    access = Access(secrets=("sk-0123456789",))
    value = {"a sk-0123456789": ["x", {"y": "key: sk-0123456789."}], "n": 3, "none": None}
    assert access.without_secrets(value) == {f"a {MASK}": ["x", {"y": f"key: {MASK}."}], "n": 3, "none": None}


def test_placeholders_are_no_secrets() -> None:
    assert Access(secrets=("EMPTY",)).redact("the answer was EMPTY") == "the answer was EMPTY"


@pytest.mark.parametrize(
    "name",
    [
        *("Authorization", "Proxy-Authorization", "X-Auth", "X-Auth-User", "X-Api-Key", "X-AccessToken", "Cookie"),
        *("JSESSIONID", "X-Amz-Signature", "X-Pass", "aws_access_key_id", "private_key", "hf_token", "ssl_keyfile"),
        *("AWS_SECRET_ACCESS_KEY", "VLLM_API_KEY", "vllm_env", "launch_command", "db_password", "azureCredential"),
    ],
)
def test_what_may_hold_a_secret_is_known_by_its_name(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("X-Team", "X-Author", "X-Org", "max_total_num_tokens", "num_speculative_tokens", "tokenizer_path", "tp_size"),
        *("quantization", "speculative_num_draft_tokens", "disable_radix_cache", "max_num_seqs", "internal_states"),
        *("speculative_config", "kv_cache_size_tokens", "enable_prefix_caching", "posterior_threshold", "simulated"),
    ],
)
def test_what_is_measured_and_compared_is_no_secret(name: str) -> None:
    assert not is_secret_name(name)


def test_it_prints_without_its_secrets() -> None:
    access = Access({"Authorization": "Bearer sk-0123456789"}, ("sk-0123456789",), proxy="http://u:pw@proxy:3128")
    assert "sk-0123456789" not in repr(access)
    assert "pw@" not in repr(access)


async def test_a_file_without_certificates_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    for file in (tmp_path / "ca.pem", tmp_path / "missing.pem"):
        with pytest.raises(SpecbenchError, match="--ca-file"):
            Access(ca_file=file).session()
