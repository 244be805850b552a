/**
 * A file of tokens with scopes or with roles, TOML with a table for each token. Whatever is not understood is refused
 * with its place: a misspelt key must neither widen a right nor make a token last longer. Tokens are kept as their
 * SHA-256 only.
 */
import { createHash } from 'node:crypto';
import { isUseLimits, parseUseLimits } from '../base/use-limits.ts';
import { SCOPED_TOKEN_BYTES_MAX, TOKENS_PER_FILE_MAX, TOKEN_ID_CHARS_MAX } from '../base/limits.ts';
import {
  OPERATOR_ROLES,
  type ListedToken,
  type RightsKind,
  type TokenList,
  isTable,
  parseScopes,
} from '../base/scopes.ts';
import { ConfigError } from './error.ts';
import { weaknessOf } from './secret-strength.ts';
import { readToml } from './toml.ts';

type Table = Readonly<Record<string, unknown>>;

/** Throws ConfigError, which never shows a token. A file for one plane opens nothing of the other. */
export function readTokensFile(path: string, label: string, kind: RightsKind): TokenList {
  const list = toTokens(readToml(path, label), path);
  if (list.tokens.every((one) => kindOf(one) === kind)) return list;
  const [has, other] = kind === 'role' ? ['scopes', 'http.tokens_file'] : ['roles', 'http.admin_tokens_file'];
  throw new ConfigError(`${label}: its tokens have ${has}, which are for the plane of ${other}`);
}

export function kindOf({ role }: ListedToken): RightsKind {
  return role === undefined ? 'scopes' : 'role';
}

/** `file`: named in front of each fault. */
export function toTokens(document: Table, file: string): TokenList {
  const fault = (place: string, reason: string): ConfigError => new ConfigError(`${file}: ${place}: ${reason}`);
  checkKeys(document, new Set(['tokens', 'revoked']), (key) =>
    fault(key, 'unknown key; the file has tokens and revoked'),
  );
  const { tokens: written = [], revoked = [] } = document;
  if (!Array.isArray(written)) throw fault('tokens', 'expected tables, [[tokens]]');
  if (written.length > TOKENS_PER_FILE_MAX) throw fault('tokens', `a file may hold ${TOKENS_PER_FILE_MAX} tokens`);
  if (!Array.isArray(revoked) || revoked.length > TOKENS_PER_FILE_MAX) {
    throw fault('revoked', `expected a list of at most ${TOKENS_PER_FILE_MAX} ids`);
  }
  const tokens = (written as readonly unknown[]).map((one, i) => {
    const place = `tokens[${i}]`;
    return toEntry(one, (below, reason) => fault(`${place}${below}`, reason));
  });
  checkOnce(tokens, 'id', fault);
  checkOnce(tokens, 'sha256', fault);
  const mixed = tokens.findIndex((one, i) => i > 0 && kindOf(one) !== kindOf(tokens[0] ?? one));
  if (mixed > 0) throw fault(`tokens[${mixed}]`, 'a file has tokens with scopes or tokens with roles, not both');
  return {
    tokens,
    revoked: (revoked as readonly unknown[]).map((id, i) => {
      // Issuers choose the ids of the tokens that they sign.
      if (typeof id !== 'string' || id === '' || id.length > TOKEN_ID_CHARS_MAX) {
        throw fault(`revoked[${i}]`, `expected an id of 1 to ${TOKEN_ID_CHARS_MAX} characters`);
      }
      return id;
    }),
  };
}

const ENTRY_KEYS: ReadonlySet<string> = new Set(['id', 'token', 'sha256', 'expires_at', 'scopes', 'role', 'limits']);
const ID_EXPECTED = `expected an id of letters, digits, "_", "-" and ".", at most ${TOKEN_ID_CHARS_MAX}`;

type Fault = (below: string, reason: string) => ConfigError;

function toEntry(raw: unknown, fault: Fault): ListedToken {
  if (!isTable(raw)) throw fault('', 'expected a table with id, sha256, expires_at, and scopes or role');
  checkKeys(raw, ENTRY_KEYS, (key) =>
    fault(`.${key}`, 'unknown key; a token has id, sha256 or token, expires_at, and scopes or role, and limits'),
  );
  const { id, expires_at: expiresAt } = raw;
  if (!isId(id)) throw fault('.id', ID_EXPECTED);
  const rights = rightsOf(raw, fault);
  return {
    id,
    sha256: digestOf(raw, fault),
    expiresAtMs: expiresAt === undefined ? undefined : timeOf(expiresAt, fault),
    ...rights,
    ...limitsOf(raw, fault),
  };
}

function limitsOf({ limits: written, role }: Table, fault: Fault): Pick<ListedToken, 'limits'> {
  if (written === undefined) return {};
  if (role !== undefined) throw fault('.limits', 'tokens with a role have none');
  const limits = parseUseLimits(written, '.limits');
  if (!isUseLimits(limits)) throw fault(limits.place, limits.reason);
  return { limits };
}

function rightsOf({ scopes, role: written }: Table, fault: Fault): Pick<ListedToken, 'scopes' | 'role'> {
  if (written === undefined) {
    const parsed = parseScopes(scopes, '.scopes');
    if (!parsed.ok) throw fault(parsed.fault.place, parsed.fault.reason);
    return { scopes: parsed.scopes };
  }
  if (scopes !== undefined) throw fault('', 'give either scopes or a role');
  const role = OPERATOR_ROLES.find((one) => one === written);
  if (role === undefined) throw fault('.role', `expected one of ${OPERATOR_ROLES.join(', ')}`);
  return { scopes: [], role };
}

function digestOf({ token, sha256 }: Table, fault: Fault): string {
  if ((token === undefined) === (sha256 === undefined)) throw fault('', 'give either sha256 or token');
  if (sha256 !== undefined) {
    if (typeof sha256 === 'string' && /^[0-9a-f]{64}$/i.test(sha256)) return sha256.toLowerCase();
    throw fault('.sha256 (not shown)', 'expected the SHA-256 of the token in 64 hexadecimal digits');
  }
  if (typeof token !== 'string' || !/^[!-~]+$/.test(token) || token.length > SCOPED_TOKEN_BYTES_MAX) {
    throw fault(
      '.token (not shown)',
      `expected visible ASCII characters without blanks, at most ${SCOPED_TOKEN_BYTES_MAX}`,
    );
  }
  const weakness = weaknessOf(token);
  if (weakness !== undefined) throw fault('.token (not shown)', `it ${weakness}: "openssl rand -hex 32" makes one`);
  return createHash('sha256').update(token, 'utf8').digest('hex');
}

const TIME_EXPECTED = 'expected a moment with its zone, such as 2027-01-31T12:00:00Z';
const TIME = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)$/i;

/** A moment of TOML knows how it was written, and one without a zone would be another one on each host. */
function timeOf(raw: unknown, fault: Fault): number {
  const written = raw instanceof Date ? raw.toISOString() : raw;
  const ms = typeof written === 'string' && TIME.test(written) ? Date.parse(written) : Number.NaN;
  if (Number.isNaN(ms)) throw fault('.expires_at', TIME_EXPECTED);
  return ms;
}

function checkKeys(table: Table, known: ReadonlySet<string>, refusal: (key: string) => ConfigError): void {
  for (const key of Object.keys(table)) if (!known.has(key)) throw refusal(key.slice(0, TOKEN_ID_CHARS_MAX));
}

function checkOnce(
  tokens: readonly ListedToken[],
  key: 'id' | 'sha256',
  fault: (place: string, reason: string) => ConfigError,
): void {
  const places = new Map<string, number>();
  for (const [i, token] of tokens.entries()) {
    const before = places.get(token[key]);
    if (before === undefined) places.set(token[key], i);
    else throw fault(`tokens[${i}].${key === 'id' ? 'id' : 'sha256'}`, `the same as that of tokens[${before}]`);
  }
}

function isId(raw: unknown): raw is string {
  return typeof raw === 'string' && raw.length <= TOKEN_ID_CHARS_MAX && /^[A-Za-z0-9_.-]+$/.test(raw);
}
