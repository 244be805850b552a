/** Parses the bodies of subscription requests by kind: from untrusted bytes to typed requests. */
import { decodeUtf8Strict } from '../../base/utf8.ts';
import { type Parsed, type WakeRequest, parseConfig, parseStreams, parseWakeRequest, parseWorker } from './requests.ts';
import type { Config } from './subscription.ts';

export interface BodyOf {
  readonly config: Config;
  readonly streams: string[];
  readonly worker: string;
  readonly wake: WakeRequest;
}

export type BodyKind = keyof BodyOf;

const PARSERS: { readonly [Kind in BodyKind]: (body: unknown) => Parsed<BodyOf[Kind]> } = {
  config: parseConfig,
  streams: parseStreams,
  worker: parseWorker,
  wake: parseWakeRequest,
};

export function parseBody<Kind extends BodyKind>(kind: Kind, body: Uint8Array): Parsed<BodyOf[Kind]> {
  const text = decodeUtf8Strict(body);
  if (text === undefined) return NO_JSON;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return NO_JSON;
  }
  return PARSERS[kind](value);
}

const NO_JSON = { ok: false, reason: 'the body must be JSON in UTF-8' } as const;
