/** A public key that signs tokens. Its kind says which algorithm these have, never the token itself. */
export type JwtAlgorithm = 'EdDSA' | 'ES256' | 'RS256';

export interface JwtKey {
  /** Tokens name it; undefined: those that name none, or one that no key has. */
  readonly id: string | undefined;
  readonly algorithm: JwtAlgorithm;
  /** As PEM, SPKI. */
  readonly pem: string;
}

/** The `iss` of tokens that nodes sign. No other issuer may have this name. */
export const NODE_ISSUER = 'urn:millrace:node';

/** A key of the nodes themselves: Ed25519. */
export interface NodeKey {
  /** Its tokens name it: the thumbprint of the public key. */
  readonly id: string;
  /** As PEM, PKCS #8. */
  readonly secret: string;
  /** As PEM, SPKI. */
  readonly pem: string;
}
