/** Bytes as lower-case hexadecimal digits, and back. */

export function toHex(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += (byte < 16 ? '0' : '') + byte.toString(16);
  return text;
}

/** Undefined unless `text` is `size` bytes in lower-case or upper-case digits. */
export function fromHex(text: string, size: number): Uint8Array | undefined {
  if (text.length !== 2 * size || !/^[0-9a-fA-F]*$/.test(text)) return undefined;
  const bytes = new Uint8Array(size);
  for (let i = 0; i < size; i++) bytes[i] = Number.parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}
