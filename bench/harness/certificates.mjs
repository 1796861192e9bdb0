// Certificates of a bench's own, made by openssl: an authority, and what it vouches for on the loopback.

import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "./temporary-folder.mjs";

const KEY = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes".split(" ");

/** Files of an authority, and of a pair that servers and clients can both show. */
export function makeCertificates() {
  const folder = temporaryFolder();
  const [caFile, caKey, keyFile, request, certFile, extensions] = ["ca", "ca-key", "key", "request", "cert", "ext"].map(
    (name) => join(folder, `${name}.pem`),
  );
  openssl(["req", "-x509", ...KEY, "-days", "2", "-subj", "/CN=bench authority", "-keyout", caKey, "-out", caFile]);
  openssl(["req", ...KEY, "-subj", "/CN=bench", "-keyout", keyFile, "-out", request]);
  writeFileSync(extensions, "subjectAltName=DNS:localhost,IP:127.0.0.1\n");
  const sign = ["-CA", caFile, "-CAkey", caKey, "-days", "2", "-set_serial", "2", "-extfile", extensions];
  openssl(["x509", "-req", "-in", request, ...sign, "-out", certFile]);
  return { caFile, certFile, keyFile };
}

function openssl(args) {
  execFileSync("openssl", args, { stdio: ["ignore", "ignore", "pipe"] });
}
