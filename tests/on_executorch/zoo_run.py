import sys, torch, warnings, time, traceback
warnings.simplefilter("ignore")
sys.path.insert(0, __file__.rsplit("/",1)[0])
from zoo import ZOO
from runtime import *
from lowtide.executorch import MemoryPlanningPass
from executorch.exir.passes import MemoryPlanningPass as Stock
names = sys.argv[1:] or list(ZOO)
wrong=0
for name in names:
    torch.manual_seed(0)
    model, calls = ZOO[name]()
    want = eager(model, calls)
    try: edge = edge_of(model, calls[-1])
    except Exception as e: print(name, "EXPORT", str(e)[:300]); continue
    t=time.time()
    res=[]
    for p in (Stock(), MemoryPlanningPass()):
        try:
            l = lower(edge, p); out=l.run(calls); d = differences(want, out)
            res.append((l.arena_bytes(), len(d)))
        except Exception as e:
            res.append(type(e).__name__+str(e)[:150].replace("\n"," "))
            if len(names)<4: traceback.print_exc()
    p_=p
    print(name, *res, p_.plans and (p_.plan.lower_bound_bytes, p_.notes), flush=True)
