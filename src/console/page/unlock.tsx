import { useState } from 'preact/hooks';
import { useDesk } from './parts.tsx';

/** Asks for the token. It stays in this tab. */
export function Unlock({ reason }: { reason: string }) {
  const { watch } = useDesk();
  const [token, setToken] = useState('');
  const submit = (event: Event): void => {
    event.preventDefault();
    if (token.trim() !== '') watch.unlock(token);
  };
  return (
    <form class="unlock" onSubmit={submit}>
      <p role="alert">{reason}</p>
      <label>
        {watch.kind === 'node' ? 'Admin token' : 'Key'}
        <input
          type="password"
          autocomplete="off"
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
      </label>
      <button type="submit" class="main">
        Open
      </button>
      <p class="hint">It is kept in this tab only, and gone when the tab is closed.</p>
    </form>
  );
}
