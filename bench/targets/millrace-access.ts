// Single nodes that look at who sends a request: tokens of every kind, and limits that are in force and never reached. They
// are compared with a node without, in the same run.

import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createSigner } from 'fast-jwt';
import { temporaryFolder } from '../processes.ts';
import { READY_STREAM, millrace } from './millrace.ts';
import type { Target } from './target.ts';

const ISSUER = 'https://issuer.example';
const AUDIENCE = 'millrace';
const JWT_LASTS = '1d';
/** The streams of `appends` come last, so that each request is held against more than one scope. */
const SCOPES = [READY_STREAM, 'append-*'].map((streams) => ({
  bucket: '_default',
  streams,
  operations: ['create', 'append'],
}));
/** More than any machine does. */
const LIMITS = 'requests_per_second = 1_000_000_000\nbytes_per_second = 1_000_000_000_000\n';

interface Access {
  readonly token: string;
  /** Lines of the section `http`. */
  readonly settings: readonly string[];
}

type Configure = (folder: string) => Access;

function planeToken(): Access {
  const token = randomBytes(32).toString('hex');
  return { token, settings: [`client_token = "${token}"`] };
}

function scopedToken(folder: string): Access {
  const token = randomBytes(32).toString('hex');
  const file = join(folder, 'tokens.toml');
  const sha256 = createHash('sha256').update(token).digest('hex');
  const scopes = SCOPES.map((scope) =>
    Object.entries(scope).map(([key, value]) => `${key} = ${JSON.stringify(value)}`),
  );
  const tables = scopes.map((lines) => ['[[tokens.scopes]]', ...lines].join('\n'));
  writeFileSync(file, ['[[tokens]]', 'id = "bench"', `sha256 = "${sha256}"`, ...tables, ''].join('\n'));
  return { token, settings: [`tokens_file = "${file}"`] };
}

function signedToken(folder: string): Access {
  const file = join(folder, 'issuer.pem');
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  writeFileSync(file, publicKey.export({ type: 'spki', format: 'pem' }));
  const key = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  const sign = createSigner({ key, iss: ISSUER, aud: AUDIENCE, jti: 'bench', expiresIn: JWT_LASTS });
  const settings = [`jwt_keys_file = "${file}"`, `jwt_issuer = "${ISSUER}"`, `jwt_audience = "${AUDIENCE}"`];
  return { token: sign({ scopes: SCOPES }), settings };
}

function limitedToken(folder: string): Access {
  const { token, settings } = scopedToken(folder);
  const file = join(folder, 'limits.toml');
  writeFileSync(file, `[token]\n${LIMITS}[bucket]\n${LIMITS}`);
  return { token, settings: [...settings, `limits_file = "${file}"`] };
}

function asking(name: Target['name'], what: string, configure: Configure): Target {
  return {
    ...millrace,
    name,
    durability: `${millrace.durability}, ${what}`,
    isExtra: true,
    start: async (options) => {
      const folder = temporaryFolder(options.dir, name);
      const { token, settings } = configure(folder);
      const config = join(folder, 'millrace.toml');
      writeFileSync(config, ['[http]', ...settings, ''].join('\n'));
      return { ...(await millrace.start({ ...options, config, token })), name };
    },
  };
}

export const TOKEN_TARGETS: readonly Target[] = [
  asking('millrace-token', 'the token of the plane', planeToken),
  asking('millrace-scoped', 'a token of a file, with scopes', scopedToken),
  asking('millrace-jwt', 'a token that an issuer signed, with scopes', signedToken),
];

export const millraceLimits: Target = asking('millrace-limits', 'a token with scopes, limits in force', limitedToken);
