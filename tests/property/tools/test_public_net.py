"""Whatever way an address is written: what is not public is not connected to."""

from __future__ import annotations

import asyncio
import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import ModelError
from workers.tools.http import parse_url
from workers.tools.public_net import Reach, checked_addresses, is_public

pytestmark = pytest.mark.property

INNER = [
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
]  # fmt: skip
OUTER = ["1.0.0.0/9", "8.0.0.0/8", "93.184.216.0/24", "100.0.0.0/10", "172.32.0.0/11", "193.0.0.0/8"]
NOTATIONS = ("dotted", "number", "hex", "octal", "mixed", "short", "mapped", "nat64", "6to4", "isatap", "translated")


def addresses(networks: list[str]) -> st.SearchStrategy[ipaddress.IPv4Address]:
    found = st.sampled_from(networks).flatmap(lambda network: st.ip_addresses(v=4, network=network))
    return found.map(lambda address: ipaddress.IPv4Address(address.packed))


def written(address: ipaddress.IPv4Address, notation: str) -> str:
    """The address as the host of a URL."""
    number, parts = int(address), [*address.packed]
    high, low = number >> 16, number & 0xFFFF
    return {
        "dotted": str(address),
        "number": str(number),
        "hex": f"0x{number:x}",
        "octal": ".".join(f"0{part:o}" for part in parts),
        "mixed": f"0x{parts[0]:X}.0{parts[1]:o}.{low}",
        "short": f"{parts[0]}.{number & 0xFFFFFF}",
        "mapped": f"[::ffff:{high:x}:{low:x}]",
        "nat64": f"[64:ff9b::{address}]",
        "6to4": f"[2002:{high:x}:{low:x}::1]",
        "isatap": f"[2600:1f00::5efe:{high:x}:{low:x}]",
        "translated": f"[::ffff:0:{high:x}:{low:x}]",
    }[notation]


async def numeric(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    return [str(entry[4][0]) for entry in found]


def reached(host: str) -> bool:
    try:
        url = parse_url(f"http://{host}/")
        asyncio.run(checked_addresses(url.raw_host.decode(), 80, numeric, Reach()))
    except ModelError:
        return False
    return True


@given(addresses(INNER), st.sampled_from(NOTATIONS))
def test_no_notation_reaches_an_inner_address(address: ipaddress.IPv4Address, notation: str) -> None:
    assert not reached(written(address, notation))


@given(addresses(OUTER), st.sampled_from([one for one in NOTATIONS if one not in ("octal", "translated")]))
def test_public_addresses_are_reached_in_most_notations(address: ipaddress.IPv4Address, notation: str) -> None:
    assert reached(written(address, notation))


@given(st.ip_addresses(v=6))
def test_an_address_of_version_6_is_public_only_where_such_are_given_out(address: ipaddress.IPv6Address) -> None:
    given_out = address in ipaddress.IPv6Network("2000::/3")
    embeds = address.ipv4_mapped is not None or address in ipaddress.IPv6Network("64:ff9b::/96")
    assert not is_public(address) or given_out or embeds
