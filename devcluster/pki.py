"""Certificates and kubeconfigs: one authority an instance, thrown away with it."""

import base64
import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = datetime.timedelta(days=365)


class Authority:
    """A certificate authority whose files lie in one folder."""

    def __init__(self, folder: Path, name: str) -> None:
        """Make a new authority; its certificate is ``<folder>/<name>.crt``."""
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        self.folder = folder
        self.certificate_file = folder / f"{name}.crt"
        self.key_file = folder / f"{name}.key"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"trainsweep devcluster {name}")])
        builder = _builder(self._subject, self._subject, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(_usage(sign_certificates=True), critical=True)
        self._certificate = builder.sign(self._key, hashes.SHA256())
        _write(self.certificate_file, self.key_file, self._certificate, self._key)

    def issue(
        self,
        file: str,
        common_name: str,
        organization: str | None = None,
        addresses: Sequence[str] = (),
    ) -> tuple[Path, Path]:
        """Issue a certificate for clients and, with addresses, for servers.

        Args:
            file: name of the two files, without their endings.
            common_name: the user that it stands for.
            organization: the group that it stands for.
            addresses: DNS names and IP addresses that a server answers to.

        Returns:
            paths of certificate and key.
        """
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        if organization:
            attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(x509.Name(attributes), self._subject, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(sign_certificates=False), critical=True)
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH] + ([ExtendedKeyUsageOID.SERVER_AUTH] if addresses else [])
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        if addresses:
            names = [_general_name(address) for address in addresses]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        paths = (self.folder / f"{file}.crt", self.folder / f"{file}.key")
        _write(*paths, builder.sign(self._key, hashes.SHA256()), key)
        return paths


def service_account_key(folder: Path) -> Path:
    """Make the RSA key that signs service account tokens; its public half is beside it as ``.pub``."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private, public = folder / "sa.key", folder / "sa.pub"
    _write_private(private, _pem(key))
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(encoding, form))
    return private


def write_kubeconfig(path: Path, server: str, authority: Path, certificate: Path, key: Path) -> Path:
    """Write a kubeconfig that holds its certificates inside, so that it can be copied on its own."""

    def inline(file: Path) -> str:
        return base64.b64encode(file.read_bytes()).decode()

    name = "devcluster"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": inline(authority)}}],
        "users": [
            {"name": name, "user": {"client-certificate-data": inline(certificate), "client-key-data": inline(key)}}
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    _write_private(path, yaml.safe_dump(config).encode())
    return path


def _builder(subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
    )


def _usage(sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=not sign_certificates,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(certificate: Path, key: Path, signed: x509.Certificate, secret: ec.EllipticCurvePrivateKey) -> None:
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    _write_private(key, _pem(secret))


def _write_private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
