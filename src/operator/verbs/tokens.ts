/** The file of tokens with scopes. Asks no node: each reads its file again at SIGHUP. */
import type { ListedToken, Scope } from '../../base/scopes.ts';
import type { Verb } from '../context.ts';
import type { Flag } from '../flags.ts';
import { OUTPUT, formatTable, wantsJson } from '../output.ts';
import { TokenFile, scopesOf } from '../token-file.ts';

const FILE: Flag = { kind: 'text', value: 'FILE', about: 'that http.tokens_file names', required: true };
const ID: Flag = { kind: 'text', value: 'ID', about: 'of the token: letters, digits, _, - and .', required: true };
const { required: _required, ...ONE } = ID;

/** Ten years: a longer life is a slip of the key. */
const LIFE_SECONDS_MAX = 10 * 366 * 86_400;

export const tokenIssue: Verb = {
  name: 'token issue',
  about: 'make a token with scopes, add its digest to the file, and print it, once',
  words: ['file', 'id'],
  examples: [
    "millracectl token issue /etc/millrace/tokens.toml till-7 --scopes 'shop/orders-*:append,read' --expires-in 720h",
    "millracectl token issue tokens.toml reports --scopes 'shop:read,list;logs/app:read'",
  ],
  flags: {
    file: FILE,
    id: ID,
    scopes: {
      kind: 'text',
      value: 'BUCKET/STREAMS:OPERATION,OPERATION;...',
      about: 'what it may do; streams are a name or a beginning with *',
      required: true,
    },
    'expires-in': {
      kind: 'seconds',
      about: 'how long it is valid; without it, until it is revoked',
      max: LIFE_SECONDS_MAX,
    },
    ...OUTPUT,
  },
  run: ({ values, say, err }) => {
    const file = TokenFile.read(values.required('file'), 'empty');
    const id = values.required('id');
    const scopes = scopesOf(values.required('scopes'));
    const expiresAtMs = values.has('expires-in') ? Date.now() + values.ms('expires-in') : undefined;
    const { token, entry } = file.issue({ id, scopes, expiresAtMs });
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
  about: 'show the tokens of the file, or one of them: state and scopes',
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
      one.scopes.map((scope, i) =>
        i === 0 ? [one.id, stateOf(one, file), expiryOf(one), textOf(scope)] : ['', '', '', textOf(scope)],
      ),
    );
    const heads = [{ head: 'id' }, { head: 'state' }, { head: 'expires' }, { head: 'scopes' }];
    for (const line of formatTable(heads, rows)) say(line);
    return Promise.resolve();
  },
};

export const tokenRevoke: Verb = {
  name: 'token revoke',
  about: 'take a token out of the file',
  words: ['file', 'id'],
  examples: ['millracectl token revoke /etc/millrace/tokens.toml till-7'],
  flags: { file: FILE, id: ID },
  run: ({ values, say }) => {
    const file = TokenFile.read(values.required('file'), 'refused');
    const id = values.required('id');
    file.revoke(id);
    say(`token ${id}: no longer in ${file.path}; it ends when the nodes get SIGHUP`);
    return Promise.resolve();
  },
};

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
  const { id, sha256, scopes, expiresAtMs } = token;
  const expires_at = expiresAtMs === undefined ? null : expiryOf(token);
  return { id, state: stateOf(token, file), sha256, expires_at, scopes };
}

function textOf({ bucket, stream, streams, operations }: Scope): string {
  return `${bucket}/${stream === undefined ? streams : JSON.stringify(stream)}:${operations.join(',')}`;
}
