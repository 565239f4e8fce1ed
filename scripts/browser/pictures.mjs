// The pictures of the README: four screens of the board that `callboard demo` leaves, in both themes. scripts/pictures
// runs this file and packs the pictures.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { Board, Tab, THEMES, lane, report } from './board.mjs';

const SCREENS = {
  inbox: '/',
  board: '/board',
  review: '/tasks/{Greet in three languages}/review',
  agents: '/agents',
};

await lane('pictures', async (browser) => {
  const folder = process.env.CALLBOARD_PICTURES;
  mkdirSync(folder, { recursive: true });
  const board = await Board.demo('greetings');
  for (const theme of THEMES) {
    const tab = await Tab.open(browser, board, { theme });
    for (const [name, path] of Object.entries(SCREENS)) {
      const answer = await tab.goto(path.replace(/{(.*)}/, (_, title) => board.task(title)));
      await tab.page.locator('.live[data-state=live]').waitFor();
      await tab.page.evaluate(() => document.fonts.ready);
      // The pointer hovers over nothing, and no field has the focus.
      await tab.page.mouse.move(0, 799);
      await tab.page.evaluate(() => document.activeElement?.blur());
      await tab.page.screenshot({ path: join(folder, `${name}-${theme}.png`) });
      report(`${name} ${theme}`, answer.ok(), answer.status());
    }
    await tab.close();
  }
});
