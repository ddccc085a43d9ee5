/** An agent as a process of its own: how it ends, and how many runs it makes before. */

import { ERL } from "erl-client";

const [ending = "", name = "", count = "1"] = process.argv.slice(2);
const erl = new ERL();
for (let number = 0; number < Number(count); number += 1) {
  await erl.run(`${name} ${number}`, { externalId: `${name} ${number}` }, (run) => run.success());
}
if (ending === "killed") process.kill(process.pid, "SIGKILL");
if (ending === "exits") process.exit(0);
