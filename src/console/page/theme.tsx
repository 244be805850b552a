import { useState } from 'preact/hooks';

const KEY = 'millrace-theme';
const THEMES = ['auto', 'light', 'dark'] as const;
type Theme = (typeof THEMES)[number];

function themeOf(text: string | null): Theme {
  return THEMES.find((one) => one === text) ?? 'auto';
}

function put(theme: Theme): void {
  if (theme === 'auto') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = theme;
  dispatchEvent(new Event('themechange'));
}

put(themeOf(localStorage.getItem(KEY)));

/** As the system has it, light, dark. */
export function ThemeButton() {
  const [theme, setTheme] = useState(themeOf(localStorage.getItem(KEY)));
  const turn = (): void => {
    const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? 'auto';
    localStorage.setItem(KEY, next);
    put(next);
    setTheme(next);
  };
  return (
    <button type="button" onClick={turn} aria-label={`Colours: ${theme}; change`}>
      {theme === 'auto' ? 'Auto' : theme === 'light' ? 'Light' : 'Dark'}
    </button>
  );
}
