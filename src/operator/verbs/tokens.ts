/** Files of tokens with scopes or roles. Asks no node: each reads its file again at SIGHUP. */
import { OPERATOR_ROLES, type ListedToken, type Scope } from '../../base/scopes.ts';
import { type Verb, textFlag } from '../context.ts';
import type { Values } from '../flags.ts';
import { UsageError } from '../../nodes/failure.ts';
import { OUTPUT, formatTable, wantsJson } from '../output.ts';
import { TokenFile, limitsOf, scopesOf } from '../token-file.ts';

const ABOUT_FILE = 'that http.tokens_file or http.admin_tokens_file names';
const FILE = textFlag('FILE', ABOUT_FILE, { required: true });
const ID = textFlag('ID', 'of the token: letters, digits, _, - and .', { required: true });
const { required: _required, ...ONE } = ID;
const ROLES = OPERATOR_ROLES.join('|');

/** Ten years: a longer life is a slip of the key. */
const LIFE_SECONDS_MAX = 10 * 366 * 86_400;

export const tokenIssue: Verb = {
  name: 'token issue',
  about: 'make a token with scopes or a role, add its digest to the file, and print it, once',
  words: ['file', 'id'],
  examples: [
    "millracectl token issue /etc/millrace/tokens.toml till-7 --scopes 'shop/orders-*:append,read' --expires-in 720h",
    "millracectl token issue tokens.toml reports --scopes 'shop:read,list' --limits requests_per_second=50,live_readers=4",
    'millracectl token issue /etc/millrace/admin-tokens.toml grafana --role observe',
  ],
  flags: {
    file: FILE,
    id: ID,
    scopes: textFlag(
      'BUCKET/STREAMS:OPERATION,OPERATION;...',
      'what it may do on the client plane; streams are a name or a beginning with *',
    ),
    role: textFlag(ROLES, 'what it may do on the admin plane', { choices: OPERATOR_ROLES }),
    limits: textFlag('LIMIT=N,...', 'how much it may use of a node, beside --scopes'),
    'expires-in': { kind: 'seconds', about: 'how long it is valid; without it, until revoked', max: LIFE_SECONDS_MAX },
    ...OUTPUT,
  },
  run: ({ values, say, err }) => {
    const file = TokenFile.read(values.required('file'), 'empty');
    const id = values.required('id');
    const rights = rightsOf(values);
    const expiresAtMs = values.has('expires-in') ? Date.now() + values.ms('expires-in') : undefined;
    const { token, entry } = file.issue({ id, rights, expiresAtMs });
    if (wantsJson(values)) say(JSON.stringify({ token, ...shownOf(entry, file) }));
    else {
      err.say(`token ${id}: in ${file.path}, ${lifeOf(entry)}; nodes take it at SIGHUP. This is shown once:`);
      say(token);
    }
    return Promise.resolve();
  },
};

export const tokenInspect: Verb = {
  name: 'token inspect',
  about: 'show the tokens of the file, or one of them: state and rights',
  words: ['file', 'id'],
  examples: [
    'millracectl token inspect /etc/millrace/tokens.toml',
    'millracectl token inspect tokens.toml till-7 -o json',
  ],
  flags: { file: FILE, id: ONE, ...OUTPUT },
  run: ({ values, say }) => {
    const file = TokenFile.read(values.required('file'), 'refused');
    const id = values.text('id');
    const tokens = id === undefined ? file.list.tokens : [file.find(id)];
    if (wantsJson(values)) {
      const shown = tokens.map((one) => shownOf(one, file));
      say(JSON.stringify(id === undefined ? shown : shown[0]));
      return Promise.resolve();
    }
    const rows = tokens.flatMap((one) =>
      rightsIn(one).map((right, i) =>
        i > 0 ? ['', '', '', right] : [one.id, stateOf(one, file), expiryOf(one), right],
      ),
    );
    const last = tokens[0]?.role === undefined ? 'scopes' : 'role';
    const heads = ['id', 'state', 'expires', last].map((head) => ({ head }));
    for (const line of formatTable(heads, rows)) say(line);
    return Promise.resolve();
  },
};

export const tokenRevoke: Verb = {
  name: 'token revoke',
  about: 'take a token out of the file, or end one that was signed',
  words: ['file', 'id'],
  examples: [
    'millracectl token revoke /etc/millrace/tokens.toml till-7',
    'millracectl token revoke /etc/millrace/tokens.toml agent-7 --signed',
  ],
  flags: {
    file: FILE,
    id: { ...ID, about: 'of the token; of one that was signed: its jti or sub, or the id that the node told' },
    signed: { kind: 'switch', about: 'an issuer or a node signed it, so the file gets its id in revoked' },
  },
  run: ({ values, say }) => {
    const file = TokenFile.read(values.required('file'), 'refused');
    const id = values.required('id');
    const isSigned = values.isSet('signed');
    if (isSigned) file.revokeSigned(id);
    else file.revoke(id);
    say(`token ${id}: ${isSigned ? 'revoked' : 'no longer'} in ${file.path}; it ends when the nodes get SIGHUP`);
    return Promise.resolve();
  },
};

function rightsOf(values: Values): Pick<ListedToken, 'scopes' | 'role' | 'limits'> {
  const [scopes, limits] = [values.text('scopes'), values.text('limits')];
  const role = OPERATOR_ROLES.find((one) => one === values.text('role'));
  if ((scopes === undefined) === (role === undefined))
    throw new UsageError('token issue needs --scopes or --role, and not both; see token issue --help');
  const rights = role === undefined ? { scopes: scopesOf(scopes ?? '') } : { scopes: [], role };
  return limits === undefined ? rights : { ...rights, limits: limitsOf(limits) };
}

/** Limits, on a line each, as --limits takes them. */
function rightsIn({ role, scopes, limits = {} }: ListedToken): string[] {
  if (role !== undefined) return [role];
  return [...scopes.map(textOf), ...Object.entries(limits).map(([name, value]) => `${name}=${value}`)];
}

type State = 'valid' | 'expired' | 'revoked';

function stateOf({ id, expiresAtMs = Infinity }: ListedToken, { list }: TokenFile): State {
  if (list.revoked.includes(id)) return 'revoked';
  return Date.now() >= expiresAtMs ? 'expired' : 'valid';
}

function expiryOf({ expiresAtMs }: ListedToken): string {
  return expiresAtMs === undefined ? 'never' : new Date(expiresAtMs).toISOString();
}

function lifeOf(token: ListedToken): string {
  return token.expiresAtMs === undefined ? 'valid until it is revoked' : `valid until ${expiryOf(token)}`;
}

/** The names of members are those of the file. */
function shownOf(token: ListedToken, file: TokenFile): Record<string, unknown> {
  const { id, sha256, scopes, role, limits, expiresAtMs } = token;
  const expires_at = expiresAtMs === undefined ? null : expiryOf(token);
  const rights = role === undefined ? { scopes, limits } : { role };
  return { id, state: stateOf(token, file), sha256, expires_at, ...rights };
}

function textOf({ bucket, stream, streams, operations }: Scope): string {
  return `${bucket}/${stream === undefined ? streams : JSON.stringify(stream)}:${operations.join(',')}`;
}
