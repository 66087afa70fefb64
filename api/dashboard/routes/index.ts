import type { Endpoint } from '../../endpoint.ts'
import { modelsRoutes } from './models.ts'
import { personRoutes } from './person.ts'
import { playgroundRoutes } from './playground.ts'

/** What the dashboard's pages ask for. They are not part of the public API and may change with any version. */
export const dashboardEndpoints: readonly Endpoint[] = [...personRoutes, ...modelsRoutes, ...playgroundRoutes]
