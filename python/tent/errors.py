# SPDX-License-Identifier: Apache-2.0
"""One exception class for each category of errors of tent.h."""
import builtins

from .enums import ErrorCode


class Error(Exception):
    """What the library refused or could not do. str() is its sentence."""

    code: ErrorCode

    def __init__(self, sentence: str, index: int = 0, field: str = "", rule: int = 0):
        super().__init__(sentence)
        self.sentence = sentence
        self.index = index  # of the entry or task; 0 for an argument of the call
        self.field = field  # "" when there is none
        self.rule = rule  # of rules.h


class ArgumentsError(Error, ValueError):
    code = ErrorCode.ARGUMENTS


class SchemaError(Error, ValueError):
    code = ErrorCode.SCHEMA


class LayoutError(Error, ValueError):
    code = ErrorCode.LAYOUT


class EnumError(Error, ValueError):
    code = ErrorCode.ENUM


class FlagsError(Error, ValueError):
    code = ErrorCode.FLAGS


class PolicyUnknownError(Error):
    code = ErrorCode.POLICY_UNKNOWN


class PolicyDeniedError(Error, PermissionError):
    code = ErrorCode.POLICY_DENIED


class DeadlineError(Error, ValueError):
    code = ErrorCode.DEADLINE


class UnsupportedError(Error):
    code = ErrorCode.UNSUPPORTED


class AddressError(Error):
    code = ErrorCode.ADDRESS


class TransportError(Error):
    code = ErrorCode.TRANSPORT


class CapacityError(Error):
    code = ErrorCode.CAPACITY


class StaleHandleError(Error):
    code = ErrorCode.STALE_HANDLE


class PeerUnreachableError(Error, ConnectionError):
    code = ErrorCode.PEER_UNREACHABLE


class EngineLostError(Error, ConnectionError):
    code = ErrorCode.ENGINE_LOST


class RuntimeFailedError(Error, RuntimeError):
    """Failed after it was accepted."""

    code = ErrorCode.RUNTIME


class CanceledError(Error):
    code = ErrorCode.CANCELED


class TimeoutError(Error, builtins.TimeoutError):
    code = ErrorCode.TIMEOUT


class OwnerGoneError(Error):
    code = ErrorCode.OWNER_GONE


class ProtocolError(Error):
    code = ErrorCode.PROTOCOL


class ConfigError(Error, ValueError):
    code = ErrorCode.CONFIG


_CLASSES = {
    c.code: c
    for c in list(globals().values())
    if isinstance(c, type) and issubclass(c, Error) and c is not Error
}


def of(code: int, index: int, field: str, sentence: str, rule: int) -> Error:
    """The exception for what the library says. A category of a later version is an Error."""
    if code in _CLASSES:
        return _CLASSES[ErrorCode(code)](sentence, index, field, rule)
    error = Error(sentence, index, field, rule)
    error.code = code  # type: ignore[assignment]
    return error
