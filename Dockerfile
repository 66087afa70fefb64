# One image for every process: `docker run headgate web`, `worker`, `migrate`, `operator <command>`.
FROM node:24-bookworm-slim AS build
WORKDIR /app
# The dependencies are a layer of their own: they change less often than the code.
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts
COPY . .
RUN npx prisma generate && npm run build && npm prune --omit=dev --ignore-scripts

FROM node:24-bookworm-slim
RUN apt-get update \
  && apt-get install --yes --no-install-recommends tini \
  && rm -rf /var/lib/apt/lists/* \
  && mkdir /data && chown node:node /data
# Two arenas of the C library in place of eight for each processor: 10 MB less.
ENV NODE_ENV=production DATA_DIR=/data PORT=3000 MALLOC_ARENA_MAX=2
WORKDIR /app
COPY --from=build /app ./
# The code belongs to root, so the process cannot change it. It writes to /data only, and there only without a bucket.
USER node
EXPOSE 3000
VOLUME /data
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/healthz`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["tini", "--", "/app/ops/docker-entrypoint.sh"]
CMD ["web"]
