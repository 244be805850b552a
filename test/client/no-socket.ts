// A WebSocket that never opens, so that everything goes over HTTP.
import assert from 'node:assert/strict';
import type { WebSocketConstructor } from '../../src/client/channel.ts';

/** A proxy that keeps WebSockets away. */
export const NoSocket: WebSocketConstructor = class {
  binaryType = '';

  addEventListener(type: string, listener: (event: object) => void): void {
    if (type === 'error') queueMicrotask(() => listener({}));
  }

  send(): void {
    assert.fail('it is not open');
  }

  close(): void {
    // It never was open.
  }
};
