"""A certificate authority of a company that nobody else trusts, for servers and clients."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFE = timedelta(days=3)


@dataclass(frozen=True)
class Authority:
    """An authority.

    Attributes:
        folder: Where its files lie.
        certificate: The file that others have to trust.
        key: Its key.
        name: Its name.
    """

    folder: Path
    certificate: Path
    key: ec.EllipticCurvePrivateKey
    name: x509.Name

    @classmethod
    def in_folder(cls, folder: Path) -> Authority:
        """Make one."""
        key, name = ec.generate_private_key(ec.SECP256R1()), _named("authority of the test")
        own = (
            _builder(name, name, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        file = folder / "authority.pem"
        file.write_bytes(own.public_bytes(serialization.Encoding.PEM))
        return cls(folder, file, key, name)

    def server(self, *hosts: str) -> Path:
        """Write key and certificate of a server into one file."""
        return self._issued("server", hosts, ExtendedKeyUsageOID.SERVER_AUTH)

    def client(self) -> Path:
        """Write key and certificate of a client into one file."""
        return self._issued("client", (), ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issued(self, called: str, hosts: tuple[str, ...], use: x509.ObjectIdentifier) -> Path:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(_named(called), self.name, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        )
        if hosts:
            names = x509.SubjectAlternativeName([_host(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        issued = builder.sign(self.key, hashes.SHA256())
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        file = self.folder / f"{called}.pem"
        file.write_bytes(private + issued.public_bytes(serialization.Encoding.PEM))
        return file


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    return x509.IPAddress(ip_address(host)) if host[0].isdigit() else x509.DNSName(host)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    begun = datetime.now(UTC) - timedelta(days=1)
    return x509.CertificateBuilder(
        issuer, subject, key.public_key(), x509.random_serial_number(), begun, begun + _LIFE
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
