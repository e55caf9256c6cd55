"""The certificate as a file: its seal, its signature, and what both prove without the store.

The signature is an envelope that other tools read. It has the whole certificate once more, as those
sign bytes and no values; both are compared.

References:
    RFC 8032 (Ed25519); DSSE 1.0.2 (envelope); in-toto Statement v1 (payload).
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from spark_core.certificate.comparison import differences
from spark_core.certificate.content import content
from spark_core.errors import LakegcError, SettingsError, VerdictError
from spark_core.json_and_toml import read_json
from spark_core.plain_text import visible

FORMAT = 1
KIND = "lakegc certificate"
_PAYLOAD_TYPE = "application/vnd.in-toto+json"
_STATEMENT = "https://in-toto.io/Statement/v1"
_PREDICATE = f"urn:lakegc:certificate:{FORMAT}"
_SEALS = ("sha256", "signature")
_ENVELOPE = ("kind", "format", *_SEALS)


def canonical(document: Mapping[str, Any]) -> bytes:
    """Return the bytes that are sealed: JSON with sorted keys, no spaces."""
    return _compact(_unsigned(document))


def _unsigned(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in _SEALS}


def _compact(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, sort_keys=True, separators=(",", ":")).encode()


def statement(document: Mapping[str, Any]) -> bytes:
    """Return the bytes that are signed: what the certificate says of a deletion report.

    Args:
        document: The certificate; its seal and its signature are left out.
    """
    report = str(document["deletion_report"]).encode()
    subject = {
        "name": f"{document['namespace']}: deletion report of run {document['run']}",
        "digest": {"sha256": hashlib.sha256(report).hexdigest()},
    }
    return _compact(
        {
            "_type": _STATEMENT,
            "subject": [subject],
            "predicateType": _PREDICATE,
            "predicate": _unsigned(document),
        }
    )


def sealed(content: Mapping[str, Any], key: Ed25519PrivateKey | None = None) -> dict[str, Any]:
    """Return a certificate with its digest and, with a key, its signature.

    Args:
        content: The certificate's values; JSON values only.
        key: The operator's key.
    """
    document = {"kind": KIND, "format": FORMAT, **content}
    document["sha256"] = hashlib.sha256(canonical(document)).hexdigest()
    if key is not None:
        payload = statement(document)
        document["signature"] = _envelope(
            payload, key.public_key(), key.sign(_pre_authentication(payload))
        )
    return document


def _envelope(payload: bytes, key: Ed25519PublicKey, value: bytes) -> dict[str, Any]:
    """Return a DSSE envelope; readers pass over the key, which is an addition."""
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    signature = {
        "keyid": hashlib.sha256(der).hexdigest(),
        "sig": base64.b64encode(value).decode(),
        "public_key": pem.decode(),
    }
    return {
        "payloadType": _PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [signature],
    }


def _pre_authentication(payload: bytes) -> bytes:
    """Return what DSSE signs of a payload: its type and its length are part of it."""
    return b"DSSEv1 %d %b %d %b" % (
        len(_PAYLOAD_TYPE),
        _PAYLOAD_TYPE.encode(),
        len(payload),
        payload,
    )


def private_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key as `openssl genpkey -algorithm ed25519` writes it.

    Raises:
        SettingsError: If it cannot be read, is encrypted, or is another kind of key.
    """
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as problem:
        raise SettingsError(f"the key {path} cannot be read ({problem.strerror}).") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # Their own words could quote the file.
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise SettingsError(
            f"{path} is not an ed25519 private key in PEM, without a password",
            "Make one: openssl genpkey -algorithm ed25519 -out key.pem",
        )
    return key


def public_key(data: bytes, name: str) -> Ed25519PublicKey:
    """Read a public key in PEM.

    Raises:
        SettingsError: If it is not an ed25519 public key.
    """
    try:
        key = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise SettingsError(
            f"{name} is not an ed25519 public key in PEM",
            "Make it from the private key: openssl pkey -in key.pem -pubout",
        )
    return key


def read_certificate(data: bytes, name: str) -> dict[str, Any]:
    """Read a certificate.

    Raises:
        VerdictError: If it is not a certificate, or of another format.
    """
    try:
        document: dict[str, Any] = read_json(data, each_once=True)
        kind, written = document.get("kind"), document.get("format")
    except ValueError as problem:
        told = visible(str(problem))  # it may quote a name
        raise VerdictError(f"{name} is not a certificate of lakegc: {told}") from None
    except AttributeError:
        kind = written = None
    if kind != KIND:
        raise VerdictError(f"{name} is not a certificate of lakegc")
    if type(written) is not int or written != FORMAT:
        raise VerdictError(
            f"{name} is a certificate in format {written!r}, this lakegc reads {FORMAT}",
            "Use the lakegc that wrote it.",
        )
    return document


def unsealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a certificate, as `content.content` puts it together."""
    return {name: value for name, value in document.items() if name not in _ENVELOPE}


def who_wrote(document: Mapping[str, Any], trusted: Ed25519PublicKey | None) -> str:
    """Say who can have written a certificate whose signature fits, in one sentence.

    Args:
        document: The certificate.
        trusted: As for `faults`.
    """
    if document.get("signature") is None:
        return "Not signed: anybody could have written this file."
    if trusted is None:
        return (
            "Signed by a key that the file itself names: anybody could have made one. "
            "--public-key says whose it must be."
        )
    return "Signed by the key of --public-key."


def faults(document: Mapping[str, Any], trusted: Ed25519PublicKey | None = None) -> list[str]:
    """Return what is wrong with a certificate by itself; empty if nothing is.

    The digest and the signature are checked. Then the certificate is made anew from the verdict and
    the deletion report that it holds, and every field is compared. The store is not asked.

    Args:
        document: The certificate.
        trusted: The key that must have signed it; None accepts the key that it names.
    """
    found = []
    if document.get("sha256") != hashlib.sha256(canonical(document)).hexdigest():
        found.append("its content is not what was sealed (sha256): it was edited or damaged")
    found += _signature_faults(document, trusted)
    try:
        made = content(document["verdict"], document["deletion_report"], document)
        found += differences(unsealed(document), made, "its own proof gives")
    except LakegcError as problem:
        found.append(problem.found)
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        found.append(f"its verdict or its deletion report is missing, or cut ({problem!r})")
    return found


def _signature_faults(document: Mapping[str, Any], trusted: Ed25519PublicKey | None) -> list[str]:
    envelope = document.get("signature")
    if envelope is None:
        return [] if trusted is None else ["it is not signed"]
    try:
        (signature,) = envelope["signatures"]
        named = public_key(signature["public_key"].encode(), "its public key")
        value = base64.b64decode(signature["sig"], validate=True)
        payload = statement(document)
        (trusted or named).verify(value, _pre_authentication(payload))
        as_signed = _envelope(payload, trusted or named, value)
    except InvalidSignature:
        if trusted is None:
            return ["its signature does not fit its content"]
        return ["it was not signed by that key, or its content was changed"]
    except (LakegcError, KeyError, TypeError, AttributeError, ValueError):
        return ["its signature cannot be read"]
    # Other tools read the envelope alone.
    return differences({"signature": envelope}, {"signature": as_signed}, "its content gives")
