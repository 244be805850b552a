/** A public key that signs tokens. Its kind says which algorithm these have, never the token itself. */
export type JwtAlgorithm = 'EdDSA' | 'ES256' | 'RS256';

export interface JwtKey {
  /** Tokens name it; undefined: those that name none, or one that no key has. */
  readonly id: string | undefined;
  readonly algorithm: JwtAlgorithm;
  /** As PEM, SPKI. */
  readonly pem: string;
}
