/**
 * The cluster's signing keys over time: a new one is shown for a while before it signs, and an old one for as long as
 * receivers may still see its signatures (protocol 6.5).
 */

/** Receivers cache the key set for five minutes, so this long covers the next key. */
export const PUBLISH_MS = 600_000;
/** After the last signature: the replay window of receivers, a running delivery, clock differences. */
export const RETIRE_MS = 900_000;
/** Within that time; more indicate a mistake. */
export const SIGNING_KEYS_MAX = 8;

export interface SigningKey {
  /** Thumbprint of the public key. */
  readonly kid: string;
  /** Public key, base64url. */
  readonly x: string;
  /** Private key, base64url; empty: the nodes have it from a file. */
  readonly d: string;
  /** It signs from then on. */
  readonly from: number;
  /** Earlier keys are no longer trusted from then on. */
  readonly alone: boolean;
}

/** Newest first. `keys` are in order of creation. */
export function publishedKeys(keys: readonly SigningKey[], nowMs: number): SigningKey[] {
  const published: SigningKey[] = [];
  for (const key of [...keys].reverse()) {
    published.push(key);
    if (nowMs >= key.from && (key.alone || nowMs >= key.from + RETIRE_MS)) break;
  }
  return published;
}

/** The newest whose time has come; one that is only shown so far when no other can sign. */
export function signingKey(
  keys: readonly SigningKey[],
  nowMs: number,
  canSign: (key: SigningKey) => boolean,
): SigningKey | undefined {
  const able = publishedKeys(keys, nowMs).filter((key) => canSign(key));
  return able.find(({ from }) => nowMs >= from) ?? able.at(-1);
}
