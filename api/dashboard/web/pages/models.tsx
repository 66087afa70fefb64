import { Route, Switch } from 'wouter'
import { useModels } from '../catalog.ts'
import { Empty, Show } from '../components/states.tsx'
import { ModelDetail } from './models/detail.tsx'
import { ModelList } from './models/list.tsx'

export default function Models() {
  const models = useModels()
  return (
    <Show query={models} rows={12}>
      {rows => (
        <Switch>
          <Route path="/:organisation/models">
            <ModelList models={rows} />
          </Route>
          <Route path="/:organisation/models/*">
            {params => {
              const model = rows.find(({ id }) => id === params['*'])
              return model ? (
                <ModelDetail key={model.id} model={model} />
              ) : (
                <Empty title="There is no such model">The catalog has what this gateway knows.</Empty>
              )
            }}
          </Route>
        </Switch>
      )}
    </Show>
  )
}
