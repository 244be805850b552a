/** Everything the operator can mend: a flag, a key, a file, a variable. `main` prints the message and exits with 2. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}
